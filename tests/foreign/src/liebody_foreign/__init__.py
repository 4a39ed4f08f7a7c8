"""One of each thing that another package can add to liebody; pyproject.toml names them."""
