-- `silly.net.dns`: addresses of names, and servers of services.
local native = ...

local dns = { A = 1, AAAA = 28, SRV = 33 }

local lookups, settings = nil, {}
-- What the script says of names, by type.
local hosts = { [dns.A] = {}, [dns.AAAA] = {} }

function dns.isname(name)
  return native.dns_family(name) == nil
end

local function own_type(address)
  local family = native.dns_family(address)
  return family == 4 and dns.A or family == 6 and dns.AAAA or nil
end

-- Names without enough dots are looked for in the domains of the list first, as resolv.conf(5) says.
local function candidates(name)
  local list = {}
  local _, dots = name:gsub("%.", "")
  if settings.search and name:sub(-1) ~= "." then
    for _, domain in ipairs(settings.search) do
      list[#list + 1] = name .. "." .. domain
    end
    table.insert(list, dots >= (settings.ndots or 1) and 1 or #list + 1, name)
    return list
  end
  return { name }
end

function dns.resolve(name, qtype, timeout)
  if type(name) ~= "string" then
    error("bad argument #1 to 'resolve': a name is expected", 2)
  end
  local own = own_type(name)
  if own then
    if own == qtype then
      return { name }
    end
    return nil, "it is an address already"
  end
  local set = hosts[qtype] and hosts[qtype][name:lower()]
  if set then
    return { unpack(set) }
  end
  lookups = lookups or native.dns_open(settings.nameservers, settings.timeout and settings.timeout * 1000)
  local answer, problem
  for _, candidate in ipairs(candidates(name)) do
    answer, problem = native.dns_ask(lookups, candidate, qtype, timeout)
    if answer then
      return answer
    end
  end
  return nil, problem
end

function dns.lookup(name, qtype, timeout)
  local all, problem = dns.resolve(name, qtype, timeout)
  if not all then
    return nil, problem
  end
  return all[1]
end

-- Questions that wait for an answer end with "Dns reconfigured".
function dns.conf(options)
  if type(options) ~= "table" then
    error("bad argument #1 to 'conf': a table is expected", 2)
  end
  local old = lookups
  settings, lookups = options, native.dns_open(options.nameservers, options.timeout and options.timeout * 1000)
  if old then
    native.dns_close(old)
  end
end

function dns.sethosts(content)
  for line in (content .. "\n"):gmatch("(.-)\r?\n") do
    local address, names = line:gsub("#.*", ""):match("^%s*(%S+)%s+(.*)$")
    local qtype = address and own_type(address)
    if qtype then
      for name in names:gmatch("%S+") do
        name = name:lower()
        local set = hosts[qtype][name] or {}
        set[#set + 1] = address
        hosts[qtype][name] = set
      end
    end
  end
end

return dns
