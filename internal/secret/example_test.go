package secret_test

import (
	"encoding/base64"
	"fmt"
	"os"

	"github.com/sandjet/sandjet/internal/secret"
)

func ExampleWriter() {
	resolver := secret.NewResolver(nil, secret.Env("SANDJET_SECRET_", []string{"SANDJET_SECRET_DB_PASSWORD=hunter2-hunter2"}))
	password, err := resolver.Resolve("agent-7", "db-password")
	if err != nil {
		fmt.Println(err)
		return
	}
	var set secret.Set
	if err := set.Add("db-password", password); err != nil {
		fmt.Println(err)
		return
	}
	out := secret.NewWriter(os.Stdout, &set)
	fmt.Fprint(out, "the password is hunter2-")
	fmt.Fprint(out, "hunter2\n")
	fmt.Fprintf(out, "Authorization: Basic %s\n", base64.StdEncoding.EncodeToString([]byte("root:hunter2-hunter2")))
	fmt.Fprintln(out, "as a Value:", password)
	if err := out.Flush(); err != nil {
		fmt.Println(err)
	}
	fmt.Println(out.Masked())
	// Output:
	// the password is ***************
	// Authorization: Basic cm9vdD*********************=
	// as a Value: [secret]
	// map[db-password:2]
}
