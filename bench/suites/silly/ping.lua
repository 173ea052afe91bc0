local tcp = require "silly.net.tcp"

local replies = {
    PING = "+PONG\r\n",
    save = "*2\r\n$4\r\nsave\r\n$0\r\n\r\n",
    appendonly = "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n",
}

tcp.listen("127.0.0.1:{port}", function(fd, addr)
    while true do
        local line = tcp.readline(fd, "\r\n")
        if not line then
            return
        end
        local reply = replies[line:match("^%S+")]
        if reply then
            tcp.write(fd, reply)
        end
    end
end)
