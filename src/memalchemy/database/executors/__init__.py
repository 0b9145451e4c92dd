"""The roads to a database: how a program of statements is executed on each of them."""
