-- `store`: values that all workers share. Called once for each state with the functions of the program.
local native = ...

local opened = {}

-- The functions of a store of the configuration.
local function open(name)
  if opened[name] then
    return opened[name]
  end
  local object = native.open(name)
  if not object then
    error("there is no store \"" .. tostring(name) .. "\": declare it in the configuration as [store." .. tostring(name)
      .. "] with its size", 2)
  end
  local store = {}
  function store.get(key)
    local value, flags, stale = native.get(object, key)
    if stale then
      return nil
    end
    -- Of what is no value, the second is why.
    if value == nil then
      return nil, flags
    end
    return value
  end
  function store.set(key, value, seconds)
    return native.set(object, key, value, seconds)
  end
  function store.add(key, value, seconds)
    return native.set(object, key, value, seconds, 0, "absent")
  end
  function store.replace(key, value, seconds)
    return native.set(object, key, value, seconds, 0, "present")
  end
  function store.delete(key)
    native.delete(object, key)
  end
  function store.incr(key, by, first, seconds)
    return native.incr(object, key, by, first, seconds)
  end
  function store.lpush(key, value)
    return native.push(object, key, value, "left")
  end
  function store.rpush(key, value)
    return native.push(object, key, value, "right")
  end
  function store.lpop(key)
    return native.pop(object, key, "left")
  end
  function store.rpop(key)
    return native.pop(object, key, "right")
  end
  function store.llen(key)
    return native.len(object, key)
  end
  function store.ttl(key)
    return native.ttl(object, key)
  end
  function store.expire(key, seconds)
    return native.expire(object, key, seconds)
  end
  function store.flush()
    native.flush(object)
    native.sweep(object)
  end
  function store.keys(most)
    return native.keys(object, most or 1024)
  end
  function store.room()
    return native.room(object)
  end
  store.open = open
  opened[name] = store
  return store
end

return open("default")
