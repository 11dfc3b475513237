// Runs one official SDK, unmodified, against the server that E2B_API_URL and
// E2B_SANDBOX_URL name: SDK says which. Each test is named "area: what" and has
// sandboxes of its own.
import './areas/lifecycle.mjs'
import './areas/commands.mjs'
import './areas/pty.mjs'
import './areas/files.mjs'
import './areas/git.mjs'
import './areas/listing.mjs'
import './areas/snapshots.mjs'
import './areas/errors.mjs'
import './areas/interpreter.mjs'
import './areas/mcp.mjs'
import './areas/absent.mjs'
