package schemas

import "github.com/santhosh-tekuri/jsonschema/v6"

type plan struct{}

func newPlan(*jsonschema.Schema) *plan { return nil }
func (*plan) accepts([]byte) bool      { return false }
