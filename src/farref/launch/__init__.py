"""`farref run`: one program on several nodes, started by the same line on each of them.

Each node runs an *agent*, the process of `farref run`. The agent of the *first* node, number 0,
starts the user's program. The agents of the others start a *member*: a process that joins the
program's system as one more host.

`launchers`   reads this node's number from the variables of SLURM, MPI, torchrun or Kubernetes
`notes`       the file in a shared folder that has the address of the first node, and the key
`connections` between agents; both ends prove that they know the key
`children`    the program, or the member: it gets the agent's signals, and ends with the agent
`first`       the agent of the first node
`others`      the agent of another node
`member`      the process that joins

**The course of a run.** The others dial the first agent. When all are there, it starts the
program. The program's `System()` finds in its environment (`actors.hosting.launched`) the address
at which the others reached the first node, a free port, and the key. It waits until all have
joined. The first agent sees the system in the folder of running systems, and tells the others to
join. When the program has ended, the first agent tells its exit code, and all agents end with it.

**The end.** The first agent alone decides it; another agent that gets a signal, or fails, asks for
it. A connection between agents that breaks is the loss of a node. Each process has the agent as its
parent and is killed by the kernel if that dies (on Linux).
"""
