-- Scripts for OpenResty: the table `ngx` and the chunks of their phases, made the functions that the phases of an
-- exchange call. Called once for each state with the functions of the program and the chunks by phase.
local native, chunks = ...

local request, response = request, response
local error, ipairs, pairs, setmetatable = error, ipairs, pairs, setmetatable
local running = coroutine.running

ngx = {}

-- What the parts share.
local core = { request = request, response = response, respond = respond, log = log }

-- What is kept of an exchange from phase to phase, in the table that belongs to it; and by coroutine, while a phase runs,
-- also where no exchange is at hand.
local KEY = {}
local states = setmetatable({}, { __mode = "k" })
local peek = native.peek
local outside = "init"

function core.state()
  local thread = running()
  local state = thread and states[thread]
  if state then
    return state
  end
  local kept = peek()
  if not kept then
    return nil
  end
  state = kept[KEY]
  if not state then
    state = { ctx = {}, vars = {}, headers = {}, out = {}, size = 0, stage = 0, start = native.now() / 1000 }
    kept[KEY] = state
  end
  return state
end

function core.phase(state)
  return state and state.phase or outside
end

local function set(...)
  local all = {}
  for _, name in ipairs({ ... }) do
    all[name] = true
  end
  return all
end

core.set = set
core.REQUEST = set("rewrite", "access", "content")
core.EXCHANGE = set("rewrite", "access", "content", "header_filter", "body_filter", "log")

-- What is known of the exchange, for a function that these phases have.
function core.need(phases)
  local state = core.state()
  local phase = core.phase(state)
  if not phases[phase] then
    local where = phase == "timer" and "ngx.timer" or phase .. "_by_lua*"
    error("API disabled in the context of " .. where, 3)
  end
  return state
end

-- A copy of the request for the phases that no longer see it.
local FACTS = {
  "method", "path", "query", "target", "host", "scheme", "client", "peer", "port", "version", "id", "user",
}
local lookup = {
  header = function(frozen, name)
    name = name:lower()
    for index = 1, #frozen.lines, 2 do
      if frozen.lines[index]:lower() == name then
        return frozen.lines[index + 1]
      end
    end
  end,
}

local keeps = chunks.log or chunks.body_filter

local function freeze_request(state)
  if not keeps or state.frozen then
    return
  end
  local frozen = setmetatable({ lines = native.request_lines(0) }, { __index = lookup })
  for _, name in ipairs(FACTS) do
    frozen[name] = request[name]
  end
  state.frozen = frozen
end

local function freeze_response(state)
  if keeps then
    state.given = setmetatable({ status = response.status, lines = native.response_lines(0) }, { __index = lookup })
  end
end

-- The request of a phase: itself, or what was copied of it. Nil if the exchange was over before a phase began.
function core.source(state)
  local phase = state.phase
  if phase == "body_filter" or phase == "log" then
    return state.frozen
  end
  return request
end

-- The end of a run, at once. `after` is nothing, 1 if phases are to come, 2 for another route.
function core.leave(state, after)
  if state.phase == "header_filter" then
    freeze_response(state)
  else
    freeze_request(state)
  end
  return native.leave(after or 0)
end

for _, part in ipairs(native.parts) do
  part(native, ngx, core)
end

-- The phases.

local function run(state, phase)
  local thread = running()
  state.phase = phase
  states[thread] = state
  chunks[phase]()
  states[thread] = nil
end

local functions, order = {}, {}

for _, phase in ipairs({ "rewrite", "access", "content" }) do
  if chunks[phase] then
    order[#order + 1] = phase
  end
end
core.last = #order

local function request_phases()
  local state = core.state()
  if state.stage == 0 then
    state.start = native.now() / 1000
  end
  while state.stage < core.last do
    state.stage = state.stage + 1
    run(state, order[state.stage])
    if core.has_output(state) then
      break
    end
  end
  if state.phase == "content" or core.has_output(state) then
    core.deliver(state)
  end
  freeze_request(state)
end

if chunks.content then
  functions.answer = request_phases
else
  if #order > 0 or keeps then
    functions.request_head = request_phases
  end
  if #order > 0 then
    functions.request_body = function()
      local body = core.state().replaced
      return body and function(_, last)
        return last and body or ""
      end
    end
  end
  if #order > 0 or keeps or chunks.header_filter then
    functions.response_head = function()
      local state = core.state()
      -- What earlier phases said of the answer, if it is not their own.
      if not state.answered then
        for name, value in pairs(state.headers) do
          response:set_header(name, value)
        end
      end
      if chunks.header_filter then
        run(state, "header_filter")
      end
      freeze_response(state)
    end
  end
end

if chunks.body_filter then
  functions.response_body = function()
    local state = core.state()
    return function(piece, last)
      if state.ended then
        return ""
      end
      state.piece, state.eof = piece, last
      run(state, "body_filter")
      state.ended = state.eof
      return core.text(state.piece) or ""
    end
  end
end

if chunks.log then
  functions.done = function(_, facts)
    local state = core.state()
    state.facts = facts
    run(state, "log")
  end
end

if chunks.init then
  chunks.init()
end
outside = "timer"

return functions
