-- Metrics of scripts: numbers by name and, where there are labels, by their values.
local native = ...

local concat, format, tostring, type = table.concat, string.format, tostring, type

-- Most combinations of values of one metric: what comes in requests must not become memory.
local MOST = 10000

local metric = {}

local function check_name(name, what, level)
  if type(name) ~= "string" or not name:match("^[%a_:][%w_:]*$") then
    error("'" .. tostring(name) .. "' is no name of a " .. what, level + 1)
  end
end

local escapes = { ["\\"] = "\\\\", ["\n"] = "\\n", ['"'] = '\\"' }

function metric.escape(value)
  return (tostring(value):gsub('[\\\n"]', escapes))
end

function metric.number(value)
  if value ~= value then
    return "NaN"
  elseif value == math.huge then
    return "+Inf"
  elseif value == -math.huge then
    return "-Inf"
  elseif value % 1 == 0 and math.abs(value) < 2 ^ 53 then
    return format("%.0f", value)
  end
  return format("%.14g", value)
end

-- A kind of metric: `new(self)` begins one series, `samples(series, add)` tells its values, `methods` change it.
function metric.kind(kind, new, samples, methods)
  local series_meta = { __index = methods }
  local vector = {}

  function vector:labels(...)
    local values, count = { ... }, #self.names
    if select("#", ...) ~= count then
      error("bad number of labels: " .. concat(self.names, ", "), 2)
    end
    for index = 1, count do
      values[index] = tostring(values[index])
    end
    local key = concat(values, "\0")
    local found = self.series[key]
    if found then
      return found
    end
    if self.count >= MOST then
      if not self.full then
        native.log(2, "metric " .. self.name .. ": more than " .. MOST .. " series; all others are counted as 'other'")
        for index = 1, count do
          values[index] = "other"
        end
        self.full = setmetatable(new(self), series_meta)
        self.full.pairs = values
        self.order[#self.order + 1] = self.full
      end
      return self.full
    end
    found = setmetatable(new(self), series_meta)
    found.pairs = values
    self.series[key] = found
    self.count = self.count + 1
    self.order[#self.order + 1] = found
    return found
  end

  local function text(self, series, extra)
    local parts = {}
    for index, name in ipairs(self.names or {}) do
      parts[index] = name .. '="' .. metric.escape(series.pairs[index]) .. '"'
    end
    parts[#parts + 1] = extra
    return #parts > 0 and "{" .. concat(parts, ",") .. "}" or ""
  end

  local function collect(self, buf)
    local lines = {}
    for _, series in ipairs(self.order or { self }) do
      samples(series, function(suffix, extra, value)
        lines[#lines + 1] = self.name .. suffix .. text(self, series, extra) .. " " .. metric.number(value)
      end)
    end
    buf[#buf + 1] = { name = self.name, help = self.help, kind = kind, lines = lines }
  end
  methods.collect, vector.collect = collect, collect

  local vector_meta = { __index = vector }
  return function(name, help, names, option)
    check_name(name, "metric", 2)
    if type(names) ~= "table" or #names == 0 then
      local made = new({ option = option })
      made.name, made.help = name, help or ""
      return setmetatable(made, series_meta)
    end
    for _, label in ipairs(names) do
      check_name(label, "label", 2)
    end
    local made = { name = name, help = help or "", names = names, series = {}, order = {}, count = 0, option = option }
    -- What an option cannot be is told here, not when the first value comes.
    new(made)
    return setmetatable(made, vector_meta)
  end
end

return metric
