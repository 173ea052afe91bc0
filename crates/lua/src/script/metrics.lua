-- `metrics`: numbers that all workers count together. Called once for each state with the functions of the program.
local native = ...

local concat, error, select, tostring, type = table.concat, error, select, tostring, type

-- Series that are found without asking the program; it bounds them itself.
local MOST = 10000

local function number(value)
  if type(value) ~= "number" then
    error("a number is expected, not " .. type(value), 3)
  end
  return value
end

local methods = {
  counter = {
    inc = function(self)
      native.add(self.series, 1)
    end,
    add = function(self, value)
      if not (number(value) >= 0) then
        error("a counter grows by a number from 0 on", 2)
      end
      native.add(self.series, value)
    end,
  },
  gauge = {
    set = function(self, value)
      native.set(self.series, number(value))
    end,
    inc = function(self)
      native.add(self.series, 1)
    end,
    dec = function(self)
      native.add(self.series, -1)
    end,
    add = function(self, value)
      native.add(self.series, number(value))
    end,
    sub = function(self, value)
      native.add(self.series, -number(value))
    end,
  },
  histogram = {
    observe = function(self, value)
      native.observe(self.series, number(value))
    end,
  },
}

local function maker(kind)
  local series_meta = { __index = methods[kind] }
  local family_meta = {
    __index = {
      -- The series with these values of the labels.
      labels = function(self, ...)
        local count = select("#", ...)
        if count ~= self.count then
          error("a value for each of " .. self.count .. " labels is expected", 2)
        end
        local values = { ... }
        for index = 1, count do
          values[index] = tostring(values[index])
        end
        local key = concat(values, "\0")
        local found = self.known[key]
        if not found then
          found = setmetatable({ series = native.series(self.family, values) }, series_meta)
          if self.room > 0 then
            self.known[key], self.room = found, self.room - 1
          end
        end
        return found
      end,
    },
  }
  -- The family of this name, or its only series where there are no labels.
  return function(name, help, labels, bounds)
    local family, problem = native.family(kind, name, help, labels, bounds)
    if not family then
      error("metrics." .. kind .. ": " .. problem, 2)
    end
    if labels == nil or #labels == 0 then
      return setmetatable({ series = native.series(family) }, series_meta)
    end
    return setmetatable({ family = family, count = #labels, known = {}, room = MOST }, family_meta)
  end
end

return { counter = maker("counter"), gauge = maker("gauge"), histogram = maker("histogram") }
