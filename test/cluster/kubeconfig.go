package cluster

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a kubeconfig file, readable by its owner only, for a configuration whose credentials are in
// memory or in files. An existing file is replaced.
func WriteKubeconfig(cfg *rest.Config, path string) error {
	api := clientcmdapi.NewConfig()
	api.Clusters["sandbox"] = &clientcmdapi.Cluster{
		Server:                   cfg.Host,
		CertificateAuthority:     cfg.CAFile,
		CertificateAuthorityData: cfg.CAData,
		InsecureSkipTLSVerify:    cfg.Insecure,
		TLSServerName:            cfg.ServerName,
	}
	api.AuthInfos["user"] = &clientcmdapi.AuthInfo{
		ClientCertificate:     cfg.CertFile,
		ClientCertificateData: cfg.CertData,
		ClientKey:             cfg.KeyFile,
		ClientKeyData:         cfg.KeyData,
		Token:                 cfg.BearerToken,
		TokenFile:             cfg.BearerTokenFile,
		Impersonate:           cfg.Impersonate.UserName,
		ImpersonateGroups:     cfg.Impersonate.Groups,
	}
	api.Contexts["sandbox"] = &clientcmdapi.Context{Cluster: "sandbox", AuthInfo: "user"}
	api.CurrentContext = "sandbox"
	data, err := clientcmd.Write(*api)
	if err != nil {
		return fmt.Errorf("cluster: encoding the kubeconfig %s: %w", path, err)
	}
	return WriteFile(path, data)
}

// loadKubeconfig reads a configuration without a rate limit from a kubeconfig file.
func loadKubeconfig(path string) (*rest.Config, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("cluster: there is no kubeconfig %s; was this sandbox ever started?", path)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("cluster: reading the kubeconfig %s: %w", path, err)
	}
	// The server's own fairness protects it; a limit in the client would only hide what a test measures.
	cfg.QPS = -1
	return cfg, nil
}
