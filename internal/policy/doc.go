// Package policy reads the policy file and says which jobs it refuses.
//
// It is an early refusal, not the wall. It stops mistakes, and jobs that were never
// meant for this worker, before anything is done, with a reason that names the rule.
// A program that is allowed to run can do whatever its sandbox lets it: the wall is
// the sandbox, what its network may reach, what a token may do, and who may publish.
//
// # The file
//
// The file is YAML, so that rules can be explained beside them; JSON is YAML too, so
// a file that a program wrote is read as well. Anchors, aliases and tags are not
// taken, nor is a field that does not exist or stands twice: what was meant to
// restrict must not be passed over.
//
//	version: 1
//	rules:
//	  - name: agents                      # stands in refusals
//	    owners: ["agent-*"]               # whom it is for; all, also jobs without an owner, when absent
//	    kinds: [task.run, "sandbox.*"]
//	    templates: [base]
//	    secrets: [github-token]           # references
//	    repos: ["https://github.com/acme/*"]
//	    shell: true                       # whether the body's shell, and shells in argv, may be used
//	    argv:
//	      allow: ["git **", "npm test"]   # nothing else
//	      deny: ["git push **"]           # not even if allowed
//	    egress:
//	      allow: ["*.github.com", "10.0.0.0/8"]
//	    guarded_paths:
//	      allow: [".github/workflows/docs.yml"]
//	      add: ["deploy/**"]
//	    caps: {timeout: 1h, silent_timeout: 10m, idle_timeout: 30m, max_age: 24h, max_attempts: 5}
//	  - name: everybody else
//	    kinds: [sandbox.destroy]
//
// The first rule whose owners fit decides alone; a job that none is for is refused.
// A field that is absent restricts nothing; an empty list allows nothing. In names a
// star stands for any text, in paths as in gitignore files.
//
// A line of argv is a list of words. It fits a command that begins with them and has
// no more; with ** at its end it may have more. A line with the name of a program
// denies it in every directory but allows it as it is written only. Where there are
// such lines, scripts are read too: the body's shell, and what a shell in argv gets
// with -c. One that cannot be read, that takes the name of a program from a variable,
// or that runs text (eval, a script in a file) is refused.
//
// Without a file everything is allowed that Sandjet takes, but for pushes to the
// guarded paths: see Guarded.
package policy
