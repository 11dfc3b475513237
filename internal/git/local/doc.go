// Package local is a git server with a forge, for development and tests: git's own
// smart HTTP server with authentication in front, and GitHub's API as far as we call
// it. Each request to the API and each of its answers is held against GitHub's
// published description.
package local
