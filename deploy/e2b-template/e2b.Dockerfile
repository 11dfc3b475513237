# A sandbox for coding agents: git, Node, Python, an agent's command line, and a
# place for mirrors that make clones cheap. Sandjet itself needs POSIX sh, coreutils,
# util-linux and, for repositories, git 2.36 or newer.
FROM node:22-bookworm

# devstack: skip, since its sandboxes have the programs of the machine.
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      ca-certificates git git-lfs openssh-client python3 python3-pip python3-venv \
 && rm -rf /var/lib/apt/lists/*

# The agent's command line: a package of npm, with its version. Empty is none.
ARG AGENT=
RUN if [ -n "$AGENT" ]; then npm install -g --no-audit --no-fund "$AGENT"; fi

# Mirrors of repositories that jobs clone often, as /opt/mirrors/<host>/<path>.git.
# mirrors.txt has an address a line; only what is readable without a credential: a
# credential that is used here stays in the image. Private ones go into mirrors/.
COPY mirror.sh mirrors.txt /tmp/mirrors/
COPY mirrors/ /opt/mirrors/
RUN sh /tmp/mirrors/mirror.sh /opt/mirrors </tmp/mirrors/mirrors.txt \
 && rm -rf /tmp/mirrors && chmod -R a+rX /opt/mirrors
