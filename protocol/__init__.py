"""The protocol, sans-IO: machines that take a message and return their effects.

It imports no actor framework, socket, thread, clock or random source; time and ids are arguments.
The actors run these very classes, and the explorer checks them.

The modules, lower ones first. Each imports only modules above it in this list, also for types,
and a test reads the list::

    ids         names of endpoints, objects, forks and calls
    errors      the errors, for users to catch
    wellformed  checks that every part of a message has its type
    messages    the messages between endpoints
    effects     the instructions of a machine to its shell
    dead        the set of the dead
    liveness    finds endpoints that are silent for too long
    succession  passes the registrar's role from host to host
    store       a table of bytes that endpoints share
    credit      limits the messages that a sender sends before its receiver takes them
    delivery    each message once and in order, over a network that loses and repeats
    columns     many references of one message, in columns
    bulk        many control messages of one step, as one
    exports     items that travel once between two endpoints, and by their index afterwards
    empty       the empty tables that all entries share
    alias       the target of one object
    owner       the owner's view of one object
    user        a user's view of one object
    lending     the two views where calls lend
    borrowing   the two views where calls lend, and replies report borrowers
    sharing     the disciplines: which two views a system has
    search      the evidence of one search for garbage in cycles
    creations   the creations that an owner has seen
    state       the tables of one endpoint, as plain data
    states      the named states of the records in these tables, and their transitions
    entries     the beginning and end of entries in the tables, and their holders
    loans       the end of loans
    names       the names of handles, and the order of requests on them
    references  the leaving and arriving of references in messages
    requests    an endpoint's requests to others, and its answers
    aliases     objects that stand for other objects
    hosting     the requests of others on the objects here
    death       the consequences of another endpoint's death
    deadlocks   finds requests that wait for each other
    holders     an endpoint's answers to a search for garbage in cycles
    cycles      finds objects that only hold each other
    context     composes all of them, and gives each message to its machine
    streams     the credit of an iteration over an object
    rendezvous  agrees on the members of a group
"""
