-- `silly.metrics.gauge`: what goes up and down.
local metric = require("silly.metrics.metric")

local methods = {}

local function number(value)
  if type(value) ~= "number" then
    error("a number is expected", 3)
  end
  return value
end

function methods:set(value)
  self.value = number(value)
end

function methods:inc()
  self.value = self.value + 1
end

function methods:dec()
  self.value = self.value - 1
end

function methods:add(value)
  self.value = self.value + number(value)
end

function methods:sub(value)
  self.value = self.value - number(value)
end

return metric.kind("gauge", function()
  return { value = 0 }
end, function(series, add)
  add("", nil, series.value)
end, methods)
