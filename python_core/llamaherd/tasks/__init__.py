"""Tasks on texts: for each kind, the requests and the columns of results."""
