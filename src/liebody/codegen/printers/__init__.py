"""What a traced function is printed as. A printer is a table of rules, from operations to text or to calls."""
