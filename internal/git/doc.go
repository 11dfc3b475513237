// Package git is the git side of a job: it takes a repository into a sandbox,
// makes one commit of what a command changed, and pushes it.
//
// Git runs where the files are, in a sandbox that whoever ran the command has
// had for himself. So everything there may be a trap: hooks, core.fsmonitor and
// filters in .git/config, a credential helper in the home directory, a path
// named like an option. The package keeps these promises:
//
//   - No program that the repository or the sandbox names is run by us: each
//     script has a home directory of its own, a configuration of its own, no
//     hooks, and the system's search path.
//   - Git never works with a credential in reach inside the repository that the
//     command could change. Commits and pushes are made from a desk: a bare
//     repository of our own, which only borrows the objects.
//   - A credential goes in by standard input, lies in a file of mode 0600 in a
//     directory of mode 0700, and is removed before the script ends. It stands in
//     no URL, argument, environment variable or configuration, and a git server
//     other than the one it is for does not get it.
//   - Nothing is forced: a branch is only ever moved forward.
//   - Everything may be repeated. A clone that is there is adopted, a commit that
//     is made is not made again, a commit that the server has is not pushed
//     again.
//
// What is refused here (guarded paths, sizes, links that lead out of the tree) is
// refused early, for people's sake. Who owns the sandbox's machine can get round
// what runs in it; with [PushHost] the same is checked again where he cannot, on
// the worker's side, before a push from there.
//
// The package knows git. What runs its scripts is behind [Runner]; what opens
// pull requests is behind [Forge]. All types may be used concurrently unless they
// say otherwise.
package git
