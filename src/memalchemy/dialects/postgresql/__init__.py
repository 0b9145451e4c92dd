"""PostgreSQL, alone or with the tables spread over the nodes of Citus."""
