-- What scripts of a gateway find beside the modules: the exchange that is under way, and how to answer it. Called once
-- for each state with the functions of the program.
local native = ...

local logger = require("silly.logger")
local concat = table.concat

request, response = native.request, native.response
setmetatable(request, { __index = native.request_get, __newindex = native.request_set, __metatable = "request" })
setmetatable(response, { __index = native.response_get, __newindex = native.response_set, __metatable = "response" })
respond = native.respond
fetch = native.fetch
store = native.make_store(native.store)

log = setmetatable({
  debug = logger.debug,
  info = logger.info,
  warn = logger.warn,
  error = logger.error,
}, {
  __call = function(_, ...)
    logger.info(...)
  end,
})

-- What becomes of content as a whole: for `return whole(function(body) ... end)`.
function whole(change, most)
  local parts, size = {}, 0
  most = most or native.body_limit
  return function(piece, last)
    size = size + #piece
    if size > most then
      error("the content has more than " .. most .. " bytes", 0)
    end
    parts[#parts + 1] = piece
    if not last then
      return ""
    end
    local body = concat(parts)
    return change(body) or body
  end
end
