"""The protocol, sans-IO: machines that take a message and say what to do.

Imports no actor framework, socket, thread, clock or random source; time and ids are
arguments. The explorer checks these very classes, and the actors run them.

The modules, lower ones first. Each imports only modules above it in this list, also for types,
and a test reads the list::

    ids         names of endpoints, objects, forks and calls
    errors      what goes wrong, for users to catch
    wellformed  checks that a message is made of what its class says
    messages    what endpoints say to each other
    effects     what a machine asks its shell to do
    dead        the set of the dead
    liveness    finds out who is silent for too long
    store       a table of bytes that endpoints share
    room        how much a sender may send before its receiver has taken it
    delivery    each message once and in order, over a network that loses and repeats
    packets     messages as bytes, and back
    alias       what one object stands for
    owner       the owner's view of one object
    user        a user's view of one object
    lending     the two views where calls lend
    borrowing   the two views where calls lend, and replies report borrowers
    sharing     the disciplines: which two views a system has
    creations   which creations an owner has seen
    state       the tables of one endpoint, as plain data
    entries     how entries begin and end in the tables, and what keeps them
    loans       when loans end
    names       what handles are called, and in which order requests on them leave
    references  how references leave and arrive with messages
    requests    what an endpoint asks of others, and what it answers
    aliases     objects that stand for other objects
    hosting     what others ask of the objects here
    rings       finds requests that wait for each other
    context     composes all of them, and gives each message to the right one
    rendezvous  agrees on the members of a group
"""
