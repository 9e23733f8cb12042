-- What stays of an order whose words are forgotten: whom it was for, and which key it set (core/orders/target.py).
ALTER TABLE forgotten_operation ADD COLUMN target BLOB NOT NULL DEFAULT x'';
