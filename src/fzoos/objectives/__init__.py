"""What is minimised: the box, a client's queries, and objectives that are programs or evaluated by hand."""
