-- `silly.metrics.counter`: what only grows.
local metric = require("silly.metrics.metric")

local methods = {}

function methods:inc()
  self.value = self.value + 1
end

function methods:add(value)
  if type(value) ~= "number" or not (value >= 0) then
    error("a counter grows by a number from 0 on", 2)
  end
  self.value = self.value + value
end

return metric.kind("counter", function()
  return { value = 0 }
end, function(series, add)
  add("", nil, series.value)
end, methods)
