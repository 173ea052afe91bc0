-- `silly.metrics.histogram`: how values are distributed.
local metric = require("silly.metrics.metric")

local usual = { 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10 }
local methods = {}

function methods:observe(value)
  if type(value) ~= "number" then
    error("a number is expected", 2)
  end
  local bounds, counts = self.bounds, self.counts
  self.sum = self.sum + value
  self.count = self.count + 1
  for index = 1, #bounds do
    if value <= bounds[index] then
      counts[index] = counts[index] + 1
      return
    end
  end
end

local function new(settings)
  local bounds = settings.option or usual
  local counts, before = {}, -math.huge
  for index, bound in ipairs(bounds) do
    if type(bound) ~= "number" or not (bound > before) then
      error("bounds of a histogram are numbers that grow", 3)
    end
    counts[index], before = 0, bound
  end
  return { bounds = bounds, counts = counts, sum = 0, count = 0 }
end

return metric.kind("histogram", new, function(series, add)
  local total = 0
  for index, bound in ipairs(series.bounds) do
    total = total + series.counts[index]
    add("_bucket", 'le="' .. metric.number(bound) .. '"', total)
  end
  add("_bucket", 'le="+Inf"', series.count)
  add("_sum", nil, series.sum)
  add("_count", nil, series.count)
end, methods)
