-- `silly.sync.singleflight`: who asks for a key that is being worked out gets what comes of that.
local task = require("silly.task")

local singleflight = {}
local meta = { __index = singleflight }

function singleflight.new(body)
  return setmetatable({ body = body, flights = {} }, meta)
end

function singleflight:call(key)
  local flight = self.flights[key]
  if flight then
    flight[#flight + 1] = task.running()
    task.wait()
  else
    flight = {}
    self.flights[key] = flight
    flight.good, flight.value = pcall(self.body, key)
    self.flights[key] = nil
    for _, waiter in ipairs(flight) do
      task.wakeup(waiter)
    end
  end
  if not flight.good then
    error(flight.value, 0)
  end
  return flight.value
end

return singleflight
