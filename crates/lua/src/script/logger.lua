-- `silly.logger`: lines for the log of the program.
local native = ...

local log, level = native.log, native.level
local concat, format, select, tostring = table.concat, string.format, select, tostring

local logger = { DEBUG = 0, INFO = 1, WARN = 2, ERROR = 3, getlevel = level, setlevel = native.set_level }

local function line(...)
  local words = { ... }
  for index = 1, select("#", ...) do
    words[index] = tostring(words[index])
  end
  return concat(words, " ")
end

for name, number in pairs({ debug = 0, info = 1, warn = 2, error = 3 }) do
  logger[name] = function(...)
    if number >= level() then
      log(number, line(...))
    end
  end
  logger[name .. "f"] = function(pattern, ...)
    if number >= level() then
      log(number, format(pattern, ...))
    end
  end
end

return logger
