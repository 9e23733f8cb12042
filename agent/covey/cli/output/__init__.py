"""What several commands print: tables, progress, questions, and waiting with a person for a result."""
