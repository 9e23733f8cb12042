"""Tables of orders: commands, installations and ordered settings, with their results and the reports about them."""
