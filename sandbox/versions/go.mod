module github.com/drover-io/drover/sandbox/versions

go 1.26.0
