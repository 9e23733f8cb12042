-- Since when a device that was removed is to be told, and until when a visitor has an address, in the time that agents
-- have run on this state: a clock that is set years ahead ended both at once. What is under way begins its month anew.
ALTER TABLE farewell ADD COLUMN aged INTEGER NOT NULL DEFAULT 0;
UPDATE farewell SET aged = (SELECT aged FROM device);
UPDATE farewell SET until = (SELECT aged FROM device) WHERE until IS NOT NULL;
