package pvetest

// unpublished are endpoints that are missing in the schema beside the repository. They are
// written from the API's documentation, and less certain.
var unpublished = []endpoint{
	{Path: "/access/permissions", Method: "GET", Params: map[string]param{
		"userid": {Type: "string", Optional: true},
		"path":   {Type: "string", Optional: true},
	}},
	{Path: "/cluster/replication", Method: "GET", Params: map[string]param{}},
	{Path: "/nodes/{node}/vzdump/extractconfig", Method: "GET", Params: map[string]param{
		"node":   {Type: "string", Format: "pve-node"},
		"volume": {Type: "string"},
	}},
	{Path: "/nodes/{node}/vzdump", Method: "POST", Params: map[string]param{
		"node":           {Type: "string", Format: "pve-node"},
		"vmid":           {Type: "string", Optional: true},
		"storage":        {Type: "string", Optional: true, Format: "pve-storage-id"},
		"mode":           {Type: "string", Optional: true, Enum: []string{"snapshot", "suspend", "stop"}},
		"compress":       {Type: "string", Optional: true, Enum: []string{"0", "1", "gzip", "lzo", "zstd"}},
		"remove":         {Type: "boolean", Optional: true},
		"prune-backups":  {Type: "string", Optional: true},
		"protected":      {Type: "boolean", Optional: true, Requires: "storage"},
		"notes-template": {Type: "string", Optional: true, MaxLength: 1024, Requires: "storage"},
		"notification-mode": {Type: "string", Optional: true,
			Enum: []string{"auto", "legacy-sendmail", "notification-system"}},
	}},
}
