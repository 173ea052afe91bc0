-- `silly.metrics.registry`: metrics and collectors that are told together.
local metric = require("silly.metrics.metric")

local registry = {}
local meta = { __index = registry }

function registry.new()
  return setmetatable({ list = {}, names = {} }, meta)
end

function registry:register(collector)
  if type(collector) ~= "table" or not collector.collect then
    error("bad argument #1 to 'register': a metric is expected", 2)
  end
  if collector.name and self.names[collector.name] then
    error("there is a metric '" .. collector.name .. "' already", 2)
  end
  if collector.name then
    self.names[collector.name] = true
  end
  self.list[#self.list + 1] = collector
end

function registry:unregister(collector)
  for index, one in ipairs(self.list) do
    if one == collector then
      table.remove(self.list, index)
      if collector.name then
        self.names[collector.name] = nil
      end
      return
    end
  end
end

function registry:collect()
  local buf = {}
  for _, collector in ipairs(self.list) do
    collector:collect(buf)
  end
  return buf
end

-- The text format of Prometheus, 0.0.4.
function registry:gather()
  local lines = {}
  for _, one in ipairs(self:collect()) do
    local help = tostring(one.help or ""):gsub("[\\\n]", { ["\\"] = "\\\\", ["\n"] = "\\n" })
    lines[#lines + 1] = "# HELP " .. one.name .. " " .. help
    lines[#lines + 1] = "# TYPE " .. one.name .. " " .. (one.kind or "untyped")
    for _, line in ipairs(one.lines or { one.name .. " " .. metric.number(one.value) }) do
      lines[#lines + 1] = line
    end
  end
  lines[#lines + 1] = ""
  return table.concat(lines, "\n")
end

return registry
