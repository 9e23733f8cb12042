-- One client per certificate, under its own name; nothing retained. Returning nothing leaves it to the next plugin.

function auth_on_register_m5(reg)
    return reg.username ~= nil and reg.client_id == reg.username
end

function auth_on_publish_m5(pub)
    if pub.retain then
        return false
    end
end

hooks = {
    auth_on_register_m5 = auth_on_register_m5,
    auth_on_publish_m5 = auth_on_publish_m5,
}
