"""torchvision's ResNet-50 in eager mode, as its cost is measured: an inference with batch 1, a training step with batch 8."""


def steps():
    """{"infer": function, "train": function}, of a model that is on the GPU."""
    import torch
    import torchvision

    model = torchvision.models.resnet50(weights=None).cuda()
    image = torch.zeros(1, 3, 224, 224, device="cuda")
    batch = torch.zeros(8, 3, 224, 224, device="cuda")
    label = torch.zeros(8, dtype=torch.long, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def infer():
        with torch.no_grad():
            model(image)

    def train():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch), label).backward()
        optimizer.step()

    return {"infer": infer, "train": train}
