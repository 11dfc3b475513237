// Package local is a sandbox server that speaks E2B's wire on loopback: the
// control plane and, inside each sandbox, envd. The official SDKs accept it
// unmodified when E2B_API_URL and E2B_SANDBOX_URL both name it. It is for
// development and tests; no product binary links it.
//
// # What it promises
//
//   - A sandbox has its own home, /tmp, process tree and pids. How well they
//     are fenced off is one of three levels, probed at the start and reported
//     by [Server.Isolation]: strong (bubblewrap), basic (bare namespaces) or
//     none (plain processes; a warning says so). The network is the host's, or
//     with Config.NoNetwork its own.
//   - Network rules hold in a sandbox's egress proxy, from the next request on.
//     In a network of its own there is no other way out; on the host's they
//     hold for programs that heed http_proxy.
//   - File calls act inside the sandbox's own tree; neither symbolic links nor
//     ".." lead out of it.
//   - A command lives on when its client goes. Output that nobody hears is
//     dropped; a slow reader stops the command, never the server.
//   - A sandbox has limits of memory and processes: by control groups, else by
//     limits of each process; and of its disk: by a file system of its own, else
//     by a limit of each file. [Server.InForce] says which.
//   - Pause stops every process where it stands, by cgroup v2's freezer, else
//     by SIGSTOP; resume lets it go on with the same pid. Pause and kill reset all open streams; afterwards the data
//     plane answers 502.
//   - Sandboxes live in Config.DataDir. A second server on the same directory
//     has the same sandboxes with their files; processes are gone, as after a
//     power cut.
//   - Tests script its failures: see [Faults].
package local
