// Package schemas holds the JSON Schemas of every job, event and question, and
// the AsyncAPI document that ties them to their subjects.
package schemas
