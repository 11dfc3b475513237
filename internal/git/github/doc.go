// Package github makes pull requests on GitHub and GitHub Enterprise, and mints
// the tokens that git works with there.
//
// A token comes from a fine-grained personal access token, or from a GitHub App.
// An App's tokens are asked for one repository with no more permissions than the
// operation needs, and are used again until five minutes before they expire.
//
// A pull request is looked for by its branch before one is opened, and again when
// GitHub says that there is one already or its answer was lost: a job that is
// repeated ends with one pull request.
package github
