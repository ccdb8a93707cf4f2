"""VGG-19, one image, on the GPU; prints what PyTorch's own allocator says it took from the driver."""
import torch
import torchvision

model = torchvision.models.vgg19(weights=None).eval().cuda()
with torch.no_grad():
    model(torch.zeros(1, 3, 224, 224, device="cuda"))
torch.cuda.synchronize()
print("max_memory_reserved", torch.cuda.max_memory_reserved())
