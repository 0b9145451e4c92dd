"""The inspector: a web page that shows what a database holds, and the routes it reads from."""
