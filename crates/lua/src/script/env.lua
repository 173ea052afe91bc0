-- `silly.env`: what the command line says with `--key=value`, and what scripts add to it.
local native = ...

local values = native.variables()
local env = {}

function env.get(key)
  local value = values[key]
  if value ~= nil then
    return value
  end
  -- "a.b" is field b of what is called a.
  local found = values
  for part in key:gmatch("[^.]+") do
    if type(found) ~= "table" then
      return nil
    end
    found = found[part]
  end
  return found
end

function env.set(key, value)
  values[key] = value
end

return env
