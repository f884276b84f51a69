/* The function of the C library of macOS and the BSDs, for Linux, whose C library has none. */
#define _GNU_SOURCE
#include <sys/socket.h>
#include <sys/types.h>

int getpeereid(int sock, uid_t *uid, gid_t *gid)
{
    struct ucred found;
    socklen_t size = sizeof found;

    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &found, &size))
        return -1;
    *uid = found.uid;
    *gid = found.gid;
    return 0;
}
