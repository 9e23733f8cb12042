add_library(usermod_tweetnacl INTERFACE)
target_sources(usermod_tweetnacl INTERFACE
    ${CMAKE_CURRENT_LIST_DIR}/module.c
    ${CMAKE_CURRENT_LIST_DIR}/field.c
    ${CMAKE_CURRENT_LIST_DIR}/curve.c
    ${CMAKE_CURRENT_LIST_DIR}/symmetric.c
)
target_include_directories(usermod_tweetnacl INTERFACE ${CMAKE_CURRENT_LIST_DIR})
target_link_libraries(usermod INTERFACE usermod_tweetnacl)
