"""What people read from the tables: views, SQL, exports, and a report as text or HTML."""
