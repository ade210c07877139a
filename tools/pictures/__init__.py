"""Pictures that commands draw, by Pillow alone: contact sheets, and annotations over an image."""
