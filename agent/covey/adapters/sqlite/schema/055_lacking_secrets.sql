-- By which offer a file was asked for that this device cannot open: it asks for the secret of that one's epoch, too.
ALTER TABLE content ADD COLUMN lacks BLOB;
