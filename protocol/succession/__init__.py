"""The registrar's role passes from host to host, so a system survives its first host.

A *store* outside of the system (etcd) keeps the registrar's facts: hosts, members, names, deaths.
Each host has a *candidate*. One of them holds the lease, and is the registrar; its *term* is the
revision at which the store made the key of its lease, so a later registrar has a higher term. Each
host also has a *registrar proxy*, to which the endpoints there send all that they would send to a
registrar.

::

    endpoint -> registrar proxy -> registrar -> store     no endpoint sees a change of the registrar
                RegistrarLine      Ledger       Campaign: which candidate is the registrar

`Campaign` decides who is the registrar. The key of the lease is made only where none is, so at any
moment the store names one candidate at most.

`Ledger` keeps the rule **outputs wait for the state**. The registrar changes its facts in memory,
and sends messages that follow from them. The change goes to the store, and only then the messages
leave. A registrar that dies, or is deposed, loses only facts that nobody has heard of. The store
takes a change only from the candidate that it names, only after all its earlier changes, and only
once. So after the first look of a new registrar, nothing of an earlier one comes into the store any
more.

`RegistrarLine` is the side of the registrar proxy. It believes the registrar of the highest term
that it has heard of, and no earlier one (fencing). It keeps each request until the registrar has
done it. If another registrar comes, the line sends it all that is kept. The registrar may get a
request again, so each takes effect once however often it comes (see
`farref.actors.cluster.elected`).

A *takeover*: a candidate is elected, and becomes the registrar. It reads all facts, in one piece.
The facts name the deaths that not all endpoints have settled; it announces these once more. It does
the requests that the registrar proxies repeat. It gives up each host that stays silent, such as the
one of the earlier registrar, if that is dead. In between, endpoints that know each other go on.
Only requests to the registrar wait.

The explorer checks (`tests/model/succession.py`), with hosts that die, leases that end too early,
answers of the store that are lost, and requests that reach it late:

* no registrar proxy believes an earlier registrar after a later one;
* every death is announced at last to every living endpoint;
* no name is given twice, and an order for a worker makes one worker;
* no grace ends before every living endpoint has settled the death: nothing is freed early;
* a system that is ended ends on all hosts, whoever dies meanwhile.
"""
