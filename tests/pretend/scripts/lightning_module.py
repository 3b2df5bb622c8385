"""A Lightning script: a module, a data module with workers, a logger, checkpoints, mixed precision."""

import torch
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Classifier(LightningModule):
    def __init__(self):
        super().__init__()
        self.save_hyperparameters()
        self.body = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Linear(64, 10)

    def training_step(self, batch, _):
        images, labels = batch
        loss = F.cross_entropy(self.head(self.body(images)), labels)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        images, labels = batch
        self.log("val_loss", F.cross_entropy(self.head(self.body(images)), labels))

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1)}


class Images(LightningDataModule):
    def setup(self, stage):
        self.rows = TensorDataset(torch.randn(1024, 3, 32, 32), torch.randint(0, 10, (1024,)))

    def train_dataloader(self):
        return DataLoader(self.rows, batch_size=64, num_workers=2, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.rows, batch_size=128, num_workers=2)


if __name__ == "__main__":
    trainer = Trainer(
        max_epochs=20, accelerator="gpu", devices=1, precision="bf16-mixed", accumulate_grad_batches=2,
        gradient_clip_val=1.0, logger=CSVLogger("logs"), callbacks=[ModelCheckpoint("checkpoints", monitor="val_loss")],
    )  # fmt: skip
    images = Images()
    trainer.fit(Classifier(), images)
    trainer.validate(datamodule=images)
    trainer.save_checkpoint("last.ckpt")
