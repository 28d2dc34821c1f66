package harness

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Volume makes a PersistentVolume that is bound to a claim of the site.
func (s *Site) Volume(name, claim string) {
	s.Helper()
	s.CreateWithCleanup(&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
			ClaimRef:                      &corev1.ObjectReference{Namespace: s.Name, Name: claim},
		},
	})
}

// Attach says that a volume is attached to a node, as the attacher does.
func (s *Site) Attach(volume, node string) *storagev1.VolumeAttachment {
	s.Helper()
	attachment := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "csi-" + volume},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "test.drover.dev", NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		},
	}
	s.CreateWithCleanup(attachment)
	return attachment
}

// Claim makes the PersistentVolumeClaim of a volume that Volume has made, for pods that the scheduler places.
func (s *Site) Claim(name, volume string) {
	s.Helper()
	s.CreateWithCleanup(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: volume, StorageClassName: new(""), AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	})
}
