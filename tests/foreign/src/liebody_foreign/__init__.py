"""Two things that another package adds to liebody: a reader of SDF, a printer of Rust."""
