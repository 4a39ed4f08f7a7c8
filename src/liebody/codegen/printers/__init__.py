"""What a traced function is printed as: a printer is a table of rules, from operations to text or calls."""
